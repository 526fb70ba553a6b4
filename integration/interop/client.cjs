// Downloads files with huggingface.js, as the JSON on stdin says:
//
//   {"endpoint": URL, "to": FOLDER, "files": [{"hash", "size", "ranges": [[a, b]…]}…]}
//
// It writes FOLDER/i for file i and FOLDER/i.j for its range j.
const fs = require("node:fs");
const { createRequire } = require("node:module");

const modules = createRequire(process.argv[2] + "/package.json");
const { __internal_XetBlob: XetBlob } = modules("@huggingface/hub");

async function main() {
  const job = JSON.parse(fs.readFileSync(0, "utf8"));
  const write = async (name, blob) =>
    fs.writeFileSync(`${job.to}/${name}`, Buffer.from(await blob.arrayBuffer()));
  for (const [i, f] of job.files.entries()) {
    const blob = new XetBlob({ hash: f.hash, size: f.size, refreshUrl: job.endpoint + "/token", accessToken: "hf_t", fetch });
    await write(`${i}`, blob);
    for (const [j, [a, b]] of f.ranges.entries()) {
      await write(`${i}.${j}`, blob.slice(a, b));
    }
  }
}

main();
