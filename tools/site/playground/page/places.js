// ds-lint counts code points, a text here has units of two bytes.

/** A function from the offset of a code point to that in a text. */
export function placesIn(text) {
  if (!/[\ud800-\udbff]/.test(text)) {
    return (offset) => offset;
  }
  const units = [];
  let unit = 0;
  for (const character of text) {
    units.push(unit);
    unit += character.length;
  }
  units.push(unit);
  return (offset) => units[offset] ?? unit;
}

/** A text with the edits of a fix. */
export function edited(text, edits) {
  const place = placesIn(text);
  return [...edits]
    .sort((one, other) => other.start - one.start)
    .reduce((made, edit) => made.slice(0, place(edit.start)) + edit.text + made.slice(place(edit.end)), text);
}
