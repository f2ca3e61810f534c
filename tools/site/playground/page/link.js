// What a link carries: the files and the options, in the part of the address that a browser sends to no server.

const VERSION = 1; // tools/site/playground/links.py writes the same

/** The fragment for `{files: {name: text}, options: {name: value}}`, without the `#`. */
export async function packed(shown) {
  const bytes = await through(new TextEncoder().encode(JSON.stringify(shown)), new CompressionStream("deflate-raw"));
  const text = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  return `${VERSION}.${text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;
}

/** What a fragment carries; undefined if it carries nothing that this page understands. */
export async function unpacked(fragment) {
  const [version, text] = fragment.replace(/^#/, "").split(".");
  if (version !== String(VERSION) || !text) {
    return undefined;
  }
  try {
    const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(binary, (character) => character.charCodeAt(0));
    const content = await through(bytes, new DecompressionStream("deflate-raw"));
    const { files, options } = JSON.parse(new TextDecoder().decode(content));
    return { files: texts(files), options: texts(options) };
  } catch {
    return undefined;
  }
}

function texts(given) {
  return Object.fromEntries(Object.entries(given ?? {}).map(([name, text]) => [name, String(text)]));
}

async function through(bytes, stream) {
  return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());
}
