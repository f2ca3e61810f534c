import { Hover, MarkdownString } from "vscode";
import type { Middleware } from "vscode-languageclient/node";
import { withoutFindings } from "./markdown";
import { explanations } from "./pages";

/** What VS Code does otherwise than other editors with what the server answers. */
export const middleware: Middleware = {
  provideCodeActions: async (document, range, asked, token, next) => [
    ...((await next(document, range, asked, token)) ?? []),
    ...explanations(asked),
  ],
  provideHover: async (document, position, token, next) => {
    const hover = await next(document, position, token);
    const contents = (hover?.contents ?? []).map((part) =>
      part instanceof MarkdownString ? withoutFindings(part.value) : "",
    );
    const text = contents.filter((part) => part !== "").map((part) => new MarkdownString(part));
    return text.length === 0 ? undefined : new Hover(text, hover?.range);
  },
  // VS Code underlines every link, and with each key underlined nobody sees what is wrong. The hover of a key has its
  // link; those of rules that a comment names remain.
  provideDocumentLinks: async (document, token, next) =>
    (await next(document, token))?.filter((link) => link.target?.path.includes("/rules/")),
};
