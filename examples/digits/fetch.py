"""Fetches the UCI handwritten digits as a CSV file: `fetch.py DESTINATION`.

The file is a part of scikit-learn's wheel, so only the package index must be reachable.
scikit-learn itself is neither installed nor run.
"""

import glob
import gzip
import os
import subprocess
import sys
import tempfile
import zipfile

MEMBER = "sklearn/datasets/data/digits.csv.gz"
ROWS = 1797

destination = sys.argv[1]
with tempfile.TemporaryDirectory() as folder:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    wheel = ["scikit-learn", "--no-deps", "--only-binary", ":all:", "--dest", folder]
    if subprocess.run(pip + wheel, check=False).returncode != 0:
        sys.exit("fetch.py: the digits are in scikit-learn's wheel, and pip could not download it")
    with zipfile.ZipFile(glob.glob(os.path.join(folder, "*.whl"))[0]) as archive:
        csv = gzip.decompress(archive.read(MEMBER))

rows = csv.count(b"\n")
if rows != ROWS:
    sys.exit(f"fetch.py: expected {ROWS} rows in {MEMBER}, found {rows}")
os.makedirs(os.path.dirname(destination) or ".", exist_ok=True)
partial = destination + ".partial"
with open(partial, "wb") as file:
    file.write(csv)
os.replace(partial, destination)  # so that the file is never there in part
