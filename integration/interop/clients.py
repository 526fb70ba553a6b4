"""Downloads a file of a repository with hf_xet in several threads, again and again: REPO PATH THREADS FOLDER."""

import os
import sys
import threading

from huggingface_hub import hf_hub_download

repo, path, threads, folder = sys.argv[1:]


def loop(number):
    try:
        while True:
            hf_hub_download(repo, path, local_dir=os.path.join(folder, str(number)), force_download=True)
            print("done", flush=True)
    except BaseException as e:
        print(e, file=sys.stderr, flush=True)
        os._exit(1)


for i in range(int(threads)):
    threading.Thread(target=loop, args=(i,)).start()
