import { I18nProvider } from "@lingui/react";
import { render, screen } from "@testing-library/react";
import { beforeAll, expect, it } from "vitest";
import { activateLanguage, i18n } from "../i18n";
import { ExternalLink } from "./ExternalLink";
import { webUrl } from "./webUrl";

beforeAll(() => activateLanguage("en"));

const show = (href: string | null) =>
  render(
    <I18nProvider i18n={i18n}>
      <ExternalLink href={href}>A chair</ExternalLink>
    </I18nProvider>,
  );

it("only http and https addresses are accepted", () => {
  expect(webUrl("https://shop.example/chair?a=1")).toBe("https://shop.example/chair?a=1");
  const hostile = [
    "javascript:alert(1)",
    " JaVaScRiPt:alert(1)",
    "java\nscript:alert(1)",
    "data:text/html,<script>",
    "vbscript:x",
    "file:///etc/passwd",
    "blob:https://a/b",
  ];
  for (const given of [...hostile, "//shop.example", "chair", "", null])
    expect([given, webUrl(given)]).toEqual([given, null]);
});

it("an external link has no opener and no referrer", () => {
  show("http://shop.example/chair");
  const link = screen.getByRole("link", { name: /A chair/ });
  expect([link.getAttribute("rel"), link.getAttribute("target")]).toEqual([
    "noopener noreferrer",
    "_blank",
  ]);
});

it("an address with another scheme is shown as text", () => {
  show("javascript:alert(document.cookie)");
  expect(screen.getByText("A chair")).toBeTruthy();
  expect(document.querySelector("a")).toBeNull();
});
