"""Writes and reads databases with LevelDB, as one line of JSON on stdin says. Keys and
values are base64; a batch is a list of [key, value], with null for a deletion.

  {"do": "write", "db": FOLDER, "opens": [[BATCH…]…]}
      opens the database for each list of batches, writes them, and prints a line. Then
      it waits for the end of stdin, and closes the database. With "compact": true it is
      opened once, and makes tables of each list
  {"do": "read", "dbs": [FOLDER…]}
      prints, for each database, {KEY: VALUE…}
"""

import base64
import json
import sys

import plyvel

# A log goes on to its end: no table is written before so many bytes.
options = dict(create_if_missing=True, write_buffer_size=256 << 20)


def write(job):
    compact = job.get("compact", False)
    db = None
    for batches in job["opens"]:
        if db and not compact:
            db.close()
            db = None
        db = db or plyvel.DB(job["db"], **options)
        for entries in batches:
            with db.write_batch() as batch:
                for key, value in entries:
                    if value is None:
                        batch.delete(base64.b64decode(key))
                    else:
                        batch.put(base64.b64decode(key), base64.b64decode(value))
        if compact:
            db.compact_range()
    print("written", flush=True)
    sys.stdin.read()
    db.close()


def read(job):
    def text(b):
        return base64.b64encode(b).decode()

    dbs = []
    for folder in job["dbs"]:
        db = plyvel.DB(folder, **options)
        dbs.append({text(key): text(value) for key, value in db})
        db.close()
    json.dump(dbs, sys.stdout)


asked = json.loads(sys.stdin.readline())
{"write": write, "read": read}[asked["do"]](asked)
