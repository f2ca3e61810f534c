import type { WorkspaceFolder } from "vscode";
import { Disposable, ProcessExecution, Task, TaskPanelKind, TaskRevealKind, TaskScope, tasks } from "vscode";

/**
 * Run a program in a terminal, where people see it and may end it, and say with which status it ended. No shell reads
 * the arguments, so there is none whose quoting could be got wrong.
 */
export async function runInTerminal(
  title: string,
  command: string,
  args: readonly string[],
  folder: WorkspaceFolder | undefined,
): Promise<number | undefined> {
  const execution = new ProcessExecution(command, [...args], folder === undefined ? {} : { cwd: folder.uri.fsPath });
  const task = new Task({ type: "ds-lint", title }, folder ?? TaskScope.Workspace, title, "ds-lint", execution, []);
  task.presentationOptions = { reveal: TaskRevealKind.Always, panel: TaskPanelKind.Dedicated, clear: true };
  let status: number | undefined;
  const ended = new Promise<void>((resolve) => {
    const listeners = Disposable.from(
      tasks.onDidEndTaskProcess((end) => {
        if (end.execution.task.name === title) {
          status = end.exitCode;
        }
      }),
      tasks.onDidEndTask((end) => {
        if (end.execution.task.name === title) {
          listeners.dispose();
          resolve();
        }
      }),
    );
  });
  await tasks.executeTask(task);
  await ended;
  return status;
}
