"""Pushes to the Hugging Face hub that do nothing, and return what a script goes on with."""

from __future__ import annotations

import inspect
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from ds_lint.smoke.probe import imports
from ds_lint.smoke.wrapping import around

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

# How the names of the methods of HfApi begin that change something on the hub.
_CHANGING = (
    "accept_", "add_", "batch_", "cancel_", "change_", "comment_", "copy_", "create_", "delete_", "disable_",
    "duplicate_", "edit_", "enable_", "grant_", "hide_", "like", "merge_", "move_", "pause_", "permanently_",
    "preupload_", "reject_", "rename_", "request_", "rerun_", "restart_", "resume_", "run_job", "run_uv_job", "scale_",
    "set_", "super_squash_", "suspend_", "sync_", "trigger_", "unlike", "update_", "upload_",
)  # fmt: skip
_OF_REPOSITORIES = ("create_repo", "duplicate_repo", "duplicate_space", "move_repo")
_OF_COMMITS = ("create_commit", "delete_file", "delete_files", "delete_folder", "upload_file", "upload_folder")
_OWNER = "user"  # the hub puts the name of the account before that of a repository


def install() -> None:
    """Replace what sends, as soon as the library is imported."""
    imports.after("huggingface_hub.hf_api", _replace)


def _replace(module: ModuleType) -> None:
    """The methods of HfApi, and the functions that are those of one object of it."""
    for name, method in list(vars(module.HfApi).items()):
        if name.startswith(_CHANGING) and inspect.isfunction(method):
            _send_nothing(module, name, method)
            if hasattr(module, name):
                setattr(module, name, getattr(module.api, name))


def _send_nothing(module: ModuleType, name: str, method: Callable[..., Any]) -> None:
    signature = inspect.signature(method)

    @around(module.HfApi, name)
    def instead(_method: Any, /, *args: Any, **kwargs: Any) -> Any:
        given = signature.bind_partial(*args, **kwargs).arguments
        answer = _answer(module, name, given)
        if not given.get("run_as_future"):
            return answer
        future: Future[Any] = Future()
        future.set_result(answer)
        return future


def _answer(module: ModuleType, name: str, given: dict[str, Any]) -> Any:
    repository = str(given.get("repo_id") or given.get("to_id") or given.get("from_id") or "repository")
    url = f"https://huggingface.co/{repository if '/' in repository else f'{_OWNER}/{repository}'}"
    if name in _OF_REPOSITORIES:
        return module.RepoUrl(url)
    if name in _OF_COMMITS:
        text = str(given.get("commit_message") or "")
        return module.CommitInfo(
            commit_url=f"{url}/commit/{'0' * 40}", commit_message=text, commit_description="", oid="0" * 40
        )
    return None
