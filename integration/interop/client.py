"""Uploads and downloads files with hf_xet, as one line of JSON on stdin says:

  {"endpoint": URL, "do": "upload", "files": [PATH…]}
      prints [{"path", "hash", "size", "sha256"}…]
  {"endpoint": URL, "do": "download", "to": FOLDER, "files": [{"hash", "size", "ranges": [[a, b]…]}…]}
      writes FOLDER/i for file i and FOLDER/i.j for its range j
"""

import json
import sys
import time

import hf_xet

job = json.load(sys.stdin)
where = dict(endpoint=job["endpoint"], token="t", token_expiry_unix_secs=int(time.time()) + 3600)
session = hf_xet.XetSession()


def upload():
    with session.new_upload_commit(**where) as commit:
        handles = [commit.start_upload_file(path, sha256=hf_xet.COMPUTE_SHA256) for path in job["files"]]
    infos = [h.result().xet_info for h in handles]
    print(json.dumps([
        dict(path=path, hash=i.hash, size=i.file_size, sha256=i.sha256)
        for path, i in zip(job["files"], infos)
    ]))


def download():
    with session.new_file_download_group(**where) as group:
        for i, f in enumerate(job["files"]):
            group.start_download_file(hf_xet.XetFileInfo(f["hash"], f["size"]), f"{job['to']}/{i}")
    stream = session.new_download_stream_group(**where)
    for i, f in enumerate(job["files"]):
        for j, (a, b) in enumerate(f["ranges"]):
            with open(f"{job['to']}/{i}.{j}", "wb") as out:
                for part in stream.download_stream(hf_xet.XetFileInfo(f["hash"], f["size"]), start=a, end=b):
                    out.write(part)


{"upload": upload, "download": download}[job["do"]]()
