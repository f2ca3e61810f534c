// What the real extension answers, which no package registry has.

const { EventEmitter, Uri, workspace } = require("vscode");

const selected = () => workspace.getConfiguration("stand-in").get("selected");

exports.activate = () => {
  const changed = new EventEmitter();
  workspace.onDidChangeConfiguration((change) => {
    if (change.affectsConfiguration("stand-in")) {
      changed.fire({ id: selected(), path: selected(), resource: undefined });
    }
  });
  return {
    ready: Promise.resolve(),
    environments: {
      getActiveEnvironmentPath: () => ({ id: selected(), path: selected() }),
      resolveEnvironment: async ({ path }) => (path === "" ? undefined : { executable: { uri: Uri.file(path) } }),
      onDidChangeActiveEnvironmentPath: changed.event,
    },
  };
};
