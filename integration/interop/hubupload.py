"""Changes repositories with huggingface_hub, as one line of JSON on stdin says. Prints {"commit"}.

  {"do": "folder", "repo", "folder"}         upload_folder
  {"do": "large", "repo", "folder"}          upload_large_folder
  {"do": "push", "repo"}                     push_to_hub of a model
  {"do": "commits", "repo", "name", "count"} one commit for each of count files NAME/i
  {"do": "change", "repo"}                   deletes, overwrites, copies and moves; then a commit on
                                             an old parent, whose status is "stale"
"""

import json
import pathlib
import sys

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


print(json.dumps({"push": push, "folder": folder, "large": large, "commits": commits, "change": change}[job["do"]]()))
