// Asks ds-lint in the worker.

export class Questions {
  #worker;
  #waiting = new Map();
  #asked = 0;

  /** Start the worker, so that the first question is answered sooner. */
  start() {
    if (this.#worker === undefined) {
      this.#worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
      this.#worker.onmessage = ({ data: { id, answer, error } }) => {
        if (error === undefined) {
          this.#waiting.get(id).resolve(JSON.parse(answer));
          this.#waiting.delete(id);
        } else {
          this.#end(error);
        }
      };
      this.#worker.onerror = ({ message }) => this.#end(message || "a file is missing");
    }
  }

  /** End the worker, whose Python may be broken now; the next question starts another one. */
  #end(message) {
    this.#worker.terminate();
    this.#worker = undefined;
    for (const { reject } of this.#waiting.values()) {
      reject(new Error(message));
    }
    this.#waiting.clear();
  }

  /** The answer to a request of `browser/answers.py`. */
  ask(request) {
    this.start();
    this.#asked += 1;
    const id = this.#asked;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#worker.postMessage({ id, request });
    });
  }
}
