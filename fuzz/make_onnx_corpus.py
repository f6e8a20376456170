#!/usr/bin/env python3
"""make_onnx_corpus.py DIR: writes the models of the ONNX node cases into a directory, to begin with."""
import pathlib
import sys
import tarfile

CASES = pathlib.Path(__file__).resolve().parents[1] / "test/import/onnx/node_cases.tar.xz"


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(CASES) as archive:
        for member in archive:
            if member.name.endswith("/model.onnx"):
                name = pathlib.PurePath(member.name).parent.name
                (folder / name).write_bytes(archive.extractfile(member).read())


if __name__ == "__main__":
    main()
