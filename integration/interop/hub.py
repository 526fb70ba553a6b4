"""Reads repositories with huggingface_hub, as one line of JSON on stdin says:

  {"do": "snapshot", "repo", "type", "revision", "to": FOLDER}
      downloads a whole repository into FOLDER, or into the cache if that is absent; prints {"path", "commit"}
  {"do": "facts", "repo", "type"}
      prints what the API says of a repository
  {"do": "errors", "repo"}
      prints the names of the errors for a repository, a revision and a file that are absent
  {"do": "file", "repo", "path", "revision"}
      downloads one file; prints {"path"}
"""

import json
import os
import sys

from huggingface_hub import HfApi, hf_hub_download, snapshot_download

job = json.load(sys.stdin)
api = HfApi()


def snapshot():
    args = {k: job[k] for k in ("revision",) if job.get(k)}
    if job.get("to"):
        args["local_dir"] = job["to"]
    path = snapshot_download(job["repo"], repo_type=job.get("type") or None, **args)
    print(json.dumps(dict(path=path, commit=os.path.basename(path))))


def file():
    print(json.dumps(dict(path=hf_hub_download(job["repo"], job["path"], revision=job.get("revision") or None))))


def facts():
    repo, kind = job["repo"], job.get("type") or None
    info = api.repo_info(repo, repo_type=kind, files_metadata=True)
    refs = api.list_repo_refs(repo, repo_type=kind)
    tree = list(api.list_repo_tree(repo, recursive=True, repo_type=kind))
    some = api.get_paths_info(repo, [e.path for e in tree[:3]] + ["absent"], repo_type=kind)
    files = [e for e in tree if hasattr(e, "size")]
    print(json.dumps(dict(
        id=info.id, commit=info.sha, private=bool(info.private), siblings=sorted(s.rfilename for s in info.siblings),
        branches=[b.name for b in refs.branches], tags=[t.name for t in refs.tags],
        tree={e.path: e.size for e in files}, some=[e.path for e in some],
        xet=[e.path for e in files if getattr(e, "xet_hash", None)],
        lfs={e.path: e.lfs.sha256 for e in files if e.lfs},
        exists=api.file_exists(repo, "config.json", repo_type=kind),
        absent=api.file_exists(repo, "absent", repo_type=kind),
    )))


def errors():
    names = []
    for repo, revision, path in (("absent/absent", None, "x"), (job["repo"], "absent", "x"), (job["repo"], None, "absent")):
        try:
            hf_hub_download(repo, path, revision=revision)
            names.append("none")
        except Exception as e:
            names.append(type(e).__name__)
    try:
        api.repo_info("absent/absent")
        names.append("none")
    except Exception as e:
        names.append(type(e).__name__)
    print(json.dumps(names))


{"snapshot": snapshot, "facts": facts, "errors": errors, "file": file}[job["do"]]()
