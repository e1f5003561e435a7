// A certified OpenID Connect provider with new keys at each start.
// stdin, one line of JSON: {port, accounts (a file), clients, claimsInIdToken}; stdout: {issuer}.
// Any password signs in; the file of accounts, {login: claims}, is read at each sign-in.
import { generateKeyPairSync } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { text } from "node:stream/consumers";
import { Provider } from "oidc-provider";

const asked = JSON.parse(await text(process.stdin));

const findAccount = (_, accountId) => {
  const claims = JSON.parse(readFileSync(asked.accounts, "utf8"))[accountId];
  return claims && { accountId, claims: () => ({ sub: accountId, ...claims }) };
};

const key = () =>
  generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({ format: "jwk" });

const server = createServer();
server.listen(asked.port, "127.0.0.1", () => {
  const issuer = `http://localhost:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: asked.clients,
    claims: {
      openid: ["sub"],
      email: ["email", "email_verified"],
      profile: ["name", "preferred_username", "roles", "realm_access"],
    },
    conformIdTokenClaims: !asked.claimsInIdToken,
    cookies: { keys: ["only for tests"] },
    jwks: { keys: [{ ...key(), use: "sig", alg: "RS256", kid: `key-${Date.now()}` }] },
    pkce: { required: () => true },
    findAccount,
  });
  server.on("request", provider.callback());
  console.log(JSON.stringify({ issuer }));
});
