import { I18nProvider } from "@lingui/react";
import { render, screen } from "@testing-library/react";
import { beforeAll, expect, it } from "vitest";
import { i18n, speak } from "../i18n";
import { External } from "./External";
import { webAddress } from "./link";

beforeAll(() => speak("en"));

const show = (href: string | null) =>
  render(
    <I18nProvider i18n={i18n}>
      <External href={href}>A chair</External>
    </I18nProvider>,
  );

it("only web pages are addresses", () => {
  expect(webAddress("https://shop.example/chair?a=1")).toBe("https://shop.example/chair?a=1");
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
    expect([given, webAddress(given)]).toEqual([given, null]);
});

it("a link out hands over neither window nor referrer", () => {
  show("http://shop.example/chair");
  const link = screen.getByRole("link", { name: /A chair/ });
  expect([link.getAttribute("rel"), link.getAttribute("target")]).toEqual([
    "noopener noreferrer",
    "_blank",
  ]);
});

it("a hostile address is text", () => {
  show("javascript:alert(document.cookie)");
  expect(screen.getByText("A chair")).toBeTruthy();
  expect(document.querySelector("a")).toBeNull();
});
