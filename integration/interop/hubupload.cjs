// Uploads a folder with @huggingface/hub, as the JSON on stdin says:
//
//   {"endpoint": URL, "repo", "folder": FOLDER, "xet": BOOL}
//
// Prints {"commit", "stale"}. The latter is the status of a commit on an old parent.
const fs = require("node:fs");
const path = require("node:path");
const { createRequire } = require("node:module");

const hub = createRequire(process.argv[2] + "/package.json")("@huggingface/hub");

const filesOf = (folder, above = "") =>
  fs.readdirSync(folder, { withFileTypes: true }).flatMap((e) =>
    e.isDirectory() ? filesOf(path.join(folder, e.name), above + e.name + "/") : [above + e.name]);

async function main() {
  const job = JSON.parse(fs.readFileSync(0, "utf8"));
  const where = { repo: job.repo, hubUrl: job.endpoint, accessToken: "hf_token" };
  try {
    await hub.createRepo(where);
  } catch (e) {
    if (e.statusCode !== 409) throw e;
  }
  const files = filesOf(job.folder).map((p) => ({ path: p, content: new Blob([fs.readFileSync(path.join(job.folder, p))]) }));
  const up = await hub.uploadFiles({ ...where, files, useXet: job.xet, commitTitle: "files" });
  let stale = 200;
  try {
    const operations = [{ operation: "addOrUpdate", path: "stale", content: new Blob(["x"]) }];
    await hub.commit({ ...where, title: "stale", parentCommit: "0".repeat(40), operations });
  } catch (e) {
    stale = e.statusCode;
  }
  console.log(JSON.stringify({ commit: up.commit.oid, stale }));
}

main();
