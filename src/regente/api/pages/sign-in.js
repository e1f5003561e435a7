// Signs in with the token behind the # of a link, which is sent to no server but by this, or with a key.
"use strict";

const message = document.getElementById("message");
const form = document.getElementById("form");

async function signIn(credentials) {
  const answer = await fetch("api/session", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(credentials),
  });
  const said = await answer.json();
  if (!answer.ok) {
    message.textContent = said.detail || "That did not work.";
    message.className = "wrong";
    return;
  }
  message.textContent = `Welcome, ${said.name}.`;
  location.replace(form.dataset.next || "docs");
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  signIn({ api_key: document.getElementById("key").value.trim() });
});

const token = new URLSearchParams(location.hash.slice(1)).get("token");
if (token) {
  history.replaceState(null, "", location.pathname);
  signIn({ token });
}
