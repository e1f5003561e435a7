import { I18nProvider } from "@lingui/react";
import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { fireEvent, render, screen, waitFor } from "@testing-library/react";
import { beforeAll, expect, it, vi } from "vitest";
import type { Settings } from "../../api/settings";
import { activateLanguage, i18n } from "../../i18n";
import { SettingsForm } from "./SettingsForm";

const FOUND: Settings = {
  session_limit: 5,
  max_retries: 2,
  auto_start: true,
  retention_days: 30,
  fixed: {},
};

beforeAll(async () => {
  await activateLanguage("en");
  window.matchMedia ??= () =>
    ({
      matches: false,
      addEventListener: () => undefined,
      removeEventListener: () => undefined,
    }) as unknown as MediaQueryList;
});

// The API client takes the global fetch when it is created.
const sent = vi.hoisted(() => {
  const bodies: unknown[] = [];
  globalThis.fetch = async (request) => {
    bodies.push(await (request as Request).json());
    return Response.json({});
  };
  return bodies;
});

const queries = new QueryClient();

function page(found: Settings, mayChange = true) {
  return (
    <I18nProvider i18n={i18n}>
      <MantineProvider>
        <QueryClientProvider client={queries}>
          <SettingsForm found={found} mayChange={mayChange} />
        </QueryClientProvider>
      </MantineProvider>
    </I18nProvider>
  );
}

const limit = () => screen.getByLabelText<HTMLInputElement>(/session_limit/);
const days = () => screen.getByLabelText<HTMLInputElement>(/retention_days/);
const type = (field: HTMLInputElement, value: string) =>
  fireEvent.change(field, { target: { value } });
const saveButton = () => screen.getByRole<HTMLButtonElement>("button", { name: "Save" });

it("a field that is not edited follows the stored value", () => {
  const { rerender } = render(page(FOUND));
  rerender(page({ ...FOUND, session_limit: 8, retention_days: 7.5 }));
  expect([limit().value, days().value]).toEqual(["8", "7.5"]);
  expect(screen.queryByText(/Changed elsewhere/)).toBeNull();
});

it("an edited field keeps its draft and reports a change elsewhere", () => {
  const { rerender } = render(page(FOUND));
  type(limit(), "12");
  rerender(page({ ...FOUND, session_limit: 8, max_retries: 3 }));
  expect(limit().value).toBe("12");
  expect(screen.getByText(/it is now 8/)).toBeTruthy();
  expect(screen.getByLabelText<HTMLInputElement>(/Retries/).value).toBe("3");
  fireEvent.click(screen.getByRole("button", { name: /Missions per session: Use/ }));
  expect(limit().value).toBe("8");
  expect(screen.queryByText(/Changed elsewhere/)).toBeNull();
});

it("a draft equal to the stored value is no longer edited", () => {
  const { rerender } = render(page(FOUND));
  type(limit(), "8");
  rerender(page({ ...FOUND, session_limit: 8 }));
  expect(saveButton().disabled).toBe(true);
  rerender(page({ ...FOUND, session_limit: 9 }));
  expect(limit().value).toBe("9");
});

it("sends edited fields only", async () => {
  const { rerender } = render(page(FOUND));
  expect(saveButton().disabled).toBe(true);
  type(days(), "7");
  expect(screen.getByText(/cannot be restored/)).toBeTruthy();
  fireEvent.click(saveButton());
  await waitFor(() =>
    expect(sent).toEqual([
      { session_limit: null, max_retries: null, auto_start: null, retention_days: 7 },
    ]),
  );
  rerender(page({ ...FOUND, retention_days: 7 }));
  await waitFor(() => expect(screen.getByText("Saved.")).toBeTruthy());
  expect(screen.queryByText(/cannot be restored/)).toBeNull();
});

it("a user without the role sees disabled fields", () => {
  render(page(FOUND, false));
  expect([limit().disabled, days().disabled]).toEqual([true, true]);
  expect(screen.queryByRole("button", { name: "Save" })).toBeNull();
});
