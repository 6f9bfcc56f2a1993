// Requests for data. Everything is read.

/** Returns the path of a request; empty fields are left out. */
export function url(path, fields) {
  const query = new URLSearchParams(Object.entries(fields).filter(([, value]) => value !== "" && value !== undefined));
  return query.size ? `${path}?${query}` : path;
}

/** Fetches a JSON document; undefined: there is none yet. An error of the server is thrown with its message. */
export async function json(path, fields = {}, signal = undefined) {
  const answer = await get(path, fields, signal);
  return answer.status === 204 ? undefined : answer.json();
}

/** Fetches a text. */
export async function text(path, fields = {}, signal = undefined) {
  return (await get(path, fields, signal)).text();
}

async function get(path, fields, signal) {
  // A time of which nothing is known, or a wrong filter, is no failure of the page: with another status the browser would log one.
  const answer = await fetch(url(path, { ...fields, errors: "ok" }), { signal });
  if (answer.ok && !answer.headers.has("x-error")) return answer;
  const body = await answer.text();
  throw new Error(message(body) ?? `${answer.status} ${answer.statusText}`);
}

function message(body) {
  try {
    return JSON.parse(body).message;
  } catch {
    return body.trim() || undefined;
  }
}

// Time after which a stream that was refused is opened again.
const AGAIN_MS = 3000;

/** A stream of the newest flows. It is opened again when it breaks. */
export class Live {
  #source;
  #again;

  constructor(onPage, onRefused) {
    Object.assign(this, { onPage, onRefused });
  }

  open(fields) {
    this.close();
    const source = new EventSource(url("/api/live", fields));
    source.addEventListener("flows", (event) => this.onPage(JSON.parse(event.data)));
    source.addEventListener("refused", (event) => {
      this.close();
      this.onRefused(JSON.parse(event.data));
    });
    source.addEventListener("open", () => this.onRefused(""));
    source.addEventListener("error", () => {
      this.onRefused("The server does not answer.");
      // The browser opens it again by itself, but not after an answer that is no stream: too many pages, for example.
      if (source.readyState === EventSource.CLOSED) this.#again = setTimeout(() => this.open(fields), AGAIN_MS);
    });
    this.#source = source;
  }

  close() {
    clearTimeout(this.#again);
    this.#source?.close();
    this.#source = undefined;
  }
}
