// Reads a repository with @huggingface/hub, as the JSON on stdin says:
//
//   {"endpoint": URL, "repo", "token", "to": FOLDER, "cache": FOLDER, "files": [{"path", "ranges": [[a, b]…]}…]}
//
// It downloads the whole repository into the cache. It then writes FOLDER/i for file i,
// FOLDER/i.plain for the same file without Xet, and FOLDER/i.j for its range j. It prints the
// facts that the API has of the repository.
const fs = require("node:fs");
const { createRequire } = require("node:module");

const modules = createRequire(process.argv[2] + "/package.json");
const hub = modules("@huggingface/hub");

async function main() {
  const job = JSON.parse(fs.readFileSync(0, "utf8"));
  console.debug = () => {}; // the client writes each download to stdout
  const where = { repo: job.repo, hubUrl: job.endpoint, accessToken: job.token };
  const snapshot = await hub.snapshotDownload({ ...where, cacheDir: job.cache });
  const write = async (name, blob) =>
    fs.writeFileSync(`${job.to}/${name}`, Buffer.from(await blob.arrayBuffer()));
  for (const [i, f] of job.files.entries()) {
    const blob = await hub.downloadFile({ ...where, path: f.path });
    await write(`${i}`, blob);
    await write(`${i}.plain`, await hub.downloadFile({ ...where, path: f.path, xet: false }));
    for (const [j, [a, b]] of f.ranges.entries()) {
      await write(`${i}.${j}`, blob.slice(a, b));
    }
  }
  const tree = {};
  for await (const e of hub.listFiles({ ...where, recursive: true, expand: true })) {
    if (e.type === "file") tree[e.path] = e.size;
  }
  const paths = await hub.pathsInfo({ ...where, paths: [job.files[0].path, "absent"], expand: true });
  console.log(JSON.stringify({
    snapshot, tree,
    some: paths.map((p) => p.path),
    user: (await hub.whoAmI({ hubUrl: job.endpoint, accessToken: job.token })).name,
    exists: await hub.fileExists({ ...where, path: job.files[0].path }),
    absent: await hub.downloadFile({ ...where, path: "absent" }),
    info: (await hub.modelInfo({ name: job.repo, hubUrl: job.endpoint, accessToken: job.token, additionalFields: ["sha"] })).sha,
  }));
}

main();
