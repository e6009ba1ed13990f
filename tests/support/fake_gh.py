"""A stand-in for the command `gh`: pull requests and comments are in the file that `FAKE_GH` names.

The file is JSON: `report` is the folder that is downloaded as the run's artifact, or null; `pulls` are pull requests;
`comments` are those of each, by its number; `calls` gets the arguments of each call.
"""

import itertools
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

REPOSITORY = "repos/owner/project"


def download(state: dict[str, Any], arguments: list[str]) -> None:
    assert arguments[1:6] == ["--repo", "owner/project", "--name", "inferometer-report", "--dir"]
    if state["report"] is None:
        sys.exit("no artifact matches any of the names or patterns provided")
    shutil.copytree(state["report"], arguments[6], dirs_exist_ok=True, symlinks=True)


def api(state: dict[str, Any], arguments: list[str]) -> Any:
    url, *options = arguments
    fields = dict(text.split("=", 1) for flag, text in itertools.pairwise(options) if flag == "-f")
    method = options[options.index("--method") + 1] if "--method" in options else "GET"
    asked = {**fields, **dict(parse_qsl(urlsplit(url).query))}
    what = urlsplit(url).path.removeprefix(f"{REPOSITORY}/").split("/")
    body = json.loads(sys.stdin.read())["body"] if "--input" in options else None
    match method, what:
        case "GET", ["pulls"]:
            assert asked["state"] == "open"
            return [one for one in state["pulls"] if one["head"]["label"] == asked["head"]]
        case "GET", ["issues", number, "comments"]:
            size, page = int(asked["per_page"]), int(asked["page"])
            return state["comments"][number][(page - 1) * size : page * size]
        case "POST", ["issues", number, "comments"]:
            known = state["comments"][number]
            known.append({"id": 1000 + len(known), "user": {"login": "github-actions[bot]"}, "body": body})
            return known[-1]
        case "PATCH", ["issues", "comments", identifier]:
            every = [one for listed in state["comments"].values() for one in listed]
            (found,) = (one for one in every if one["id"] == int(identifier))
            found["body"] = body
            return found
    raise AssertionError(f"{method} {url}")


if __name__ == "__main__":
    file = Path(os.environ["FAKE_GH"])
    state = json.loads(file.read_text())
    state["calls"].append(sys.argv[1:])
    assert os.environ["GH_TOKEN"] == "a token"
    if sys.argv[1:3] == ["run", "download"]:
        download(state, sys.argv[3:])
    else:
        assert sys.argv[1] == "api"
        print(json.dumps(api(state, sys.argv[2:])))
    file.write_text(json.dumps(state))
