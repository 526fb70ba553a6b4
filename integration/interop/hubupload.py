"""Changes repositories with huggingface_hub, as one line of JSON on stdin says. Prints {"commit"}.

  {"do": "folder", "repo", "folder"}         upload_folder
  {"do": "large", "repo", "folder"}          upload_large_folder
  {"do": "push", "repo"}                     push_to_hub of a model
  {"do": "commits", "repo", "name", "count"} one commit for each of count files NAME/i
  {"do": "change", "repo"}                   deletes, overwrites, copies and moves; then a commit on
                                             an old parent, whose status is "stale"
  {"do": "reuse", "repo", "seconds"}         commits of two of eight contents into repositories REPO0,
                                             REPO1, … for some time, with a line for each: {"repo",
                                             "files", "error"}
  {"do": "refused", "repo", "writer", "reader", "files", "size"}
                                             commits that the server refuses, with files of text in their
                                             bodies, and their errors: "errors"
"""

import itertools
import json
import pathlib
import random
import sys
import time

from huggingface_hub import CommitOperationAdd, CommitOperationCopy, CommitOperationDelete, HfApi, ModelCard, ModelHubMixin
from huggingface_hub.errors import HfHubHTTPError

job = json.load(sys.stdin)
api = HfApi()
repo = job["repo"]


class Model(ModelHubMixin):
    def generate_model_card(self, *args, **kwargs):
        return ModelCard("# A model\n")  # the template needs Jinja2

    def _save_pretrained(self, folder: pathlib.Path) -> None:
        (folder / "weights.bin").write_bytes(bytes(range(256)) * 1000)


def push():
    Model().push_to_hub(repo)
    return dict(commit=api.repo_info(repo).sha)


def folder():
    api.create_repo(repo, exist_ok=True)
    return dict(commit=api.upload_folder(repo_id=repo, folder_path=job["folder"], commit_message="a folder").oid)


def large():
    api.create_repo(repo, exist_ok=True)
    api.upload_large_folder(repo_id=repo, folder_path=job["folder"], repo_type="model", print_report=False)
    return dict(commit=api.repo_info(repo).sha)


def commits():
    for i in range(job["count"]):
        add = CommitOperationAdd(f"{job['name']}/{i}", f"{job['name']} {i}\n".encode() * 100)
        oid = api.create_commit(repo, [add], commit_message=f"{job['name']} {i}").oid
    return dict(commit=oid)


def change():
    old = api.repo_info(repo).sha
    oid = api.create_commit(repo, [
        CommitOperationDelete("config.json"),
        CommitOperationDelete("many/", is_folder=True),
        CommitOperationAdd("README.md", b"changed\n" * 100),
        CommitOperationCopy("floats.bin", "moved/floats.bin"),
        CommitOperationDelete("floats.bin"),
    ], commit_message="change", parent_commit=old).oid
    try:
        api.create_commit(repo, [CommitOperationAdd("stale", b"x")], commit_message="stale", parent_commit=old)
        stale = 200
    except HfHubHTTPError as e:
        stale = e.response.status_code
    return dict(commit=oid, stale=stale)


def reuse():
    dice = random.Random(job["repo"])
    end = time.monotonic() + job["seconds"]
    for i in itertools.count():
        if time.monotonic() > end:
            return dict(commit="")
        name, error = f"{repo}{i}", None
        files = dice.sample(range(8), 2)
        adds = [CommitOperationAdd(f"{n}.bin", random.Random(n).randbytes(300_000)) for n in files]
        try:
            api.create_repo(name)
            api.create_commit(name, adds, commit_message="reuse")
        except Exception as e:
            error = f"{type(e).__name__}: {e}"
        print(json.dumps(dict(repo=name, files=files, error=error)), flush=True)


def refused():
    token = job["writer"]
    api.create_repo(repo, token=token)
    old = api.create_commit(repo, [CommitOperationAdd("a", b"1")], commit_message="first", token=token).oid
    api.create_commit(repo, [CommitOperationAdd("a", b"2")], commit_message="second", token=token)

    def error(name, adds, **options):
        try:
            api.create_commit(repo, adds, commit_message=name, **options)
        except Exception as e:
            return f"{type(e).__name__}: {e}"

    def texts(name):
        text = random.Random(name).randbytes(job["size"] // 2).hex().encode()
        return [CommitOperationAdd(f"{name}/{i}.txt", b"%d" % i + text) for i in range(job["files"])]

    def sent(adds):  # without a request for the modes of the files, which would be refused before
        for add in adds:
            add._upload_mode = "regular"
        return adds

    return dict(errors={
        "reader": error("reader", texts("reader"), token=job["reader"]),
        "reader commit": error("reader", sent(texts("reader")), token=job["reader"]),
        "parent": error("parent", texts("parent"), token=token, parent_commit=old),
        "quota": error("quota", texts("quota"), token=token),
    })


print(json.dumps({"refused": refused, "push": push, "reuse": reuse, "folder": folder, "large": large, "commits": commits, "change": change}[job["do"]]()))
