/** The settings that decide how a config is checked, as `tools/option_tables.py` writes them. */
const TERMS =
  "stack deepspeedVersion transformersVersion accelerateVersion worldSize nodes trainerArgs model gpu hostMemory";

/** The arguments of ds-lint that train with a config on trial, on the terms that the settings say. */
export function smokeArguments(config: string, setting: (name: string) => unknown): string[] {
  const terms = TERMS.split(" ").flatMap((name) => {
    const option = `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
    const value = setting(name);
    const text = typeof value === "number" ? String(value) : typeof value === "string" ? value.trim() : "";
    return text === "" ? [] : [`${option}=${text}`]; // in one piece: the flags of a launch begin with dashes
  });
  return ["check", config, "--smoke", ...terms];
}
