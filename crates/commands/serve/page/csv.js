// Reads CSV (RFC 4180).

/** Calls `visit` with the fields of each row behind the header. Returns the header. */
export function rows(text, visit) {
  let header;
  for (let at = 0; at < text.length; ) {
    let end = text.indexOf("\r\n", at);
    if (end < 0) end = text.length;
    let fields;
    const line = text.slice(at, end);
    if (line.includes('"')) [fields, end] = quoted(text, at);
    else fields = line.split(",");
    if (header) visit(fields);
    else header = fields;
    at = end + 2;
  }
  return header ?? [];
}

function quoted(text, at) {
  const fields = [];
  for (;;) {
    let field = "";
    if (text[at] === '"') {
      for (at++; at < text.length; at++) {
        if (text[at] !== '"') field += text[at];
        else if (text[at + 1] === '"') field += text[at++];
        else break;
      }
      at++;
    } else {
      while (at < text.length && text[at] !== "," && text[at] !== "\r") field += text[at++];
    }
    fields.push(field);
    if (text[at] !== ",") return [fields, at];
    at++;
  }
}
