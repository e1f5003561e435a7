import { expect, it } from "vitest";
import { changesOf } from "./MemberDialog";

const proxy = { id: "px_1", name: "br-1", host: "proxy.test", port: 8080, username: "me" };

it("sends changed fields only, and no empty secret", () => {
  expect(changesOf("proxies", proxy, { name: "br-1", host: "other.test", password: "" })).toEqual({
    host: "other.test",
  });
  expect(changesOf("proxies", proxy, { port: "9090", password: "new" })).toEqual({
    port: 9090,
    password: "new",
  });
  expect(changesOf("proxies", proxy, {})).toEqual({});
});
