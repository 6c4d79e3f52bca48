// Makes each call anew: `kind base (path body)...`; prints one line a call, status and body.
import http from "node:http";

const [kind, base, ...words] = process.argv.slice(2);
const headers = { "content-type": "application/json" };

async function byFetch(url, body) {
  const answer = await fetch(url, { method: "POST", headers, body });
  return `${answer.status} ${(await answer.text()).trim()}`;
}

function byHttp(url, body) {
  return new Promise((resolve, reject) => {
    const call = http.request(url, { method: "POST", headers, agent: new http.Agent() }, answer => {
      let text = "";
      answer.on("data", part => (text += part));
      answer.on("end", () => resolve(`${answer.statusCode} ${text.trim()}`));
    });
    call.on("error", reject);
    call.end(body);
  });
}

for (let at = 0; at < words.length; at += 2)
  console.log(await (kind === "http" ? byHttp : byFetch)(base + words[at], words[at + 1]));
