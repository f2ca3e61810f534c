// The tree of a shell script for browser/tree_sitter.py, by the grammar that tree-sitter-bash has for browsers.

import { Language, Parser } from "./web-tree-sitter.js";

const NAMED = 1;
const MISSING = 2;
const BROKEN = 4;

/** A function that parses a text, in JSON: each node as [kind, field, flags, start, end, from row, column, to row, column, children]. */
export async function shellParser(grammar) {
  await Parser.init();
  const language = await Language.load(grammar);
  return (text) => {
    const parser = new Parser().setLanguage(language);
    const tree = parser.parse(text);
    try {
      return JSON.stringify(flattened(tree.walk()));
    } finally {
      tree.delete();
      parser.delete();
    }
  };
}

function flattened(cursor) {
  const nodes = [];
  const words = [];
  const numbers = new Map();
  const number = (word) => {
    if (!numbers.has(word)) {
      numbers.set(word, words.push(word) - 1);
    }
    return numbers.get(word);
  };
  const record = () => {
    const node = cursor.currentNode;
    const flags = (node.isNamed && NAMED) | (node.isMissing && MISSING) | (node.hasError && BROKEN);
    const field = cursor.currentFieldName ? number(cursor.currentFieldName) : -1;
    const { row, column } = node.startPosition;
    const end = node.endPosition;
    return [number(node.type), field, flags, node.startIndex, node.endIndex, row, column, end.row, end.column, 0];
  };
  const begun = []; // the records of the nodes around the next one
  for (let goesOn = true; goesOn; ) {
    const one = record();
    nodes.push(one);
    if (begun.length > 0) {
      begun.at(-1)[9] += 1;
    }
    begun.push(one);
    goesOn = cursor.gotoFirstChild();
    while (!goesOn && begun.length > 1) {
      begun.pop();
      goesOn = cursor.gotoNextSibling();
      if (!goesOn) {
        cursor.gotoParent();
      }
    }
  }
  cursor.delete();
  return { nodes, words };
}
