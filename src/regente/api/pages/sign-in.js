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

// Sign-in with an OpenID Connect provider, which sends the browser back here when it fails.
const PROBLEMS = {
  provider_unavailable: "The sign-in provider does not respond. Try again later, or use an API key.",
  canceled: "The sign-in was canceled or refused at the provider.",
  expired: "The sign-in took too long or was already used. Try again.",
  invalid_answer: "The answer of the sign-in provider could not be verified; the reason is in the log.",
  no_role: "You are signed in at the provider, but have no role here. Ask an admin for access.",
};

async function showProviders() {
  const answer = await fetch("api/session/providers");
  for (const { name, url } of answer.ok ? await answer.json() : []) {
    const link = document.createElement("a");
    link.href = url;
    link.textContent = `Sign in with ${name}`;
    document.getElementById("providers").append(link);
  }
}

const problem = PROBLEMS[new URLSearchParams(location.search).get("problem")];
if (problem) {
  message.textContent = problem;
  message.className = "wrong";
}
showProviders();

const token = new URLSearchParams(location.hash.slice(1)).get("token");
if (token) {
  history.replaceState(null, "", location.pathname);
  signIn({ token });
}
