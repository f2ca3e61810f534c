// Makes elements, and lists of tabs that the keyboard operates.

let made = 0;

/** An identity that no other element of the page has. */
export function identity(word) {
  made += 1;
  return `ds-lint-${word}-${made}`;
}

/** An element with attributes, listeners (`onclick`), and what it contains. */
export function element(tag, attributes = {}, ...content) {
  const one = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) {
      one.addEventListener(name.slice(2), value);
    } else if (value === true) {
      one.setAttribute(name, "");
    } else if (value !== false && value !== undefined) {
      one.setAttribute(name, value);
    }
  }
  one.append(...content.flat().filter((part) => part !== undefined && part !== null && part !== false));
  return one;
}

/** Text in which backquotes mark code. */
export function prose(text) {
  return text.split(/`([^`]+)`/).map((part, index) => (index % 2 ? element("code", {}, part) : part));
}

/** A list of tabs for `items` of `{name, panel}`; `choose` gets the number of the one that the user takes. */
export function tabList(label, items, chosen, choose) {
  const tabs = items.map(({ name, panel }, index) =>
    element(
      "button",
      {
        type: "button",
        role: "tab",
        "aria-selected": String(index === chosen),
        "aria-controls": panel.id,
        tabindex: index === chosen ? "0" : "-1",
        onclick: () => choose(index),
      },
      name,
    ),
  );
  return element(
    "div",
    {
      role: "tablist",
      "aria-label": label,
      onkeydown: (event) => {
        const steps = { ArrowRight: chosen + 1, ArrowLeft: chosen - 1, Home: 0, End: tabs.length - 1 };
        if (event.key in steps) {
          event.preventDefault();
          choose((steps[event.key] + tabs.length) % tabs.length, true);
        }
      },
    },
    tabs,
  );
}
