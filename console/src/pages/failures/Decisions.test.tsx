import { I18nProvider } from "@lingui/react";
import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { cleanup, fireEvent, render, screen, waitFor } from "@testing-library/react";
import { afterEach, beforeAll, expect, it, vi } from "vitest";
import type { Decision } from "../../api/decisions";
import type { Role } from "../../api/session";
import { SessionContext } from "../../app/session";
import { activateLanguage, i18n } from "../../i18n";
import { Decisions } from "./Decisions";

const PAYMENT: Decision = {
  task_id: 42,
  pipeline: "payments",
  batch_id: null,
  step: "PAY",
  item: null,
  attempt: 2,
  called_at: "2026-01-02T14:03:07",
  asked_at: "2026-01-02T14:03:09",
};

// The API client takes the global fetch when it is created.
const server = vi.hoisted(() => {
  const state = { waiting: [] as unknown[], sent: [] as string[], conflict: false, broken: false };
  globalThis.fetch = async (request) => {
    const asked = request as Request;
    if (asked.method === "GET") return Response.json(state.waiting);
    state.sent.push(await asked.text());
    if (state.broken)
      return Response.json({ code: "INVALID_INPUT", detail: "too long" }, { status: 422 });
    state.waiting = [];
    if (state.conflict) return Response.json({ code: "ILLEGAL_TRANSITION" }, { status: 409 });
    return Response.json({});
  };
  return state;
});

beforeAll(async () => {
  await activateLanguage("en");
  window.matchMedia ??= () =>
    ({
      matches: false,
      addEventListener: () => undefined,
      removeEventListener: () => undefined,
    }) as unknown as MediaQueryList;
  globalThis.ResizeObserver ??= class {
    observe = () => undefined;
    unobserve = () => undefined;
    disconnect = () => undefined;
  };
});

afterEach(() => {
  cleanup();
  Object.assign(server, { waiting: [], sent: [], conflict: false, broken: false });
});

function show(waiting: Decision[], role: Role = "operator") {
  server.waiting = waiting;
  const session = { name: "ana", role, via: "session" } as never;
  render(
    <I18nProvider i18n={i18n}>
      <MantineProvider env="test">
        <QueryClientProvider client={new QueryClient()}>
          <SessionContext value={session}>
            <Decisions />
          </SessionContext>
        </QueryClientProvider>
      </MantineProvider>
    </I18nProvider>,
  );
}

const button = (name: string) => screen.getByRole("button", { name });
const open = async (name: string) =>
  fireEvent.click(await screen.findByRole("button", { name: `${name} #42 · PAY` }));
const write = (value: string) =>
  fireEvent.change(screen.getByLabelText(/Result \(JSON\)/), { target: { value } });
const toast = () => screen.getByRole("status").textContent;

it("says which call waits, since when and in which attempt", async () => {
  show([PAYMENT]);
  expect(
    await screen.findByRole("region", { name: "1 call waits for your decision" }),
  ).toBeTruthy();
  expect(screen.getByText(/2:03:07.PM, attempt 2/)).toBeTruthy();
});

it("a viewer sees it without the actions", async () => {
  show([PAYMENT], "viewer");
  await screen.findByText(/attempt 2/);
  expect(screen.queryByRole("button")).toBeNull();
});

it("retries only after a confirmation, and says so", async () => {
  show([PAYMENT]);
  await open("Retry it");
  expect(screen.getByText(/done or paid twice/)).toBeTruthy();
  expect(server.sent).toEqual([]);
  fireEvent.click(button("Retry it"));
  await waitFor(() => expect(toast()).toBe("PAY of task 42 will be called again."));
  expect(server.sent.map((one) => JSON.parse(one))).toEqual([
    { step: "PAY", item: null, retry: true },
  ]);
  await waitFor(() => expect(screen.queryByRole("region")).toBeNull());
});

it("sends a result as it was written, and only JSON", async () => {
  show([{ ...PAYMENT, item: 3 }]);
  fireEvent.click(await screen.findByRole("button", { name: /^Give its result/ }));
  write("{price: 1}");
  fireEvent.click(button("Give its result"));
  expect(screen.getByText(/not valid JSON/)).toBeTruthy();
  write('{"price": 1.0, "id": 12345678901234567890}');
  fireEvent.click(button("Give its result"));
  await waitFor(() =>
    expect(server.sent).toEqual([
      '{"step":"PAY","item":3,"retry":false,"result":{"price": 1.0, "id": 12345678901234567890}}',
    ]),
  );
  await waitFor(() => expect(toast()).toContain("Task 42 goes on"));
});

it("shows the server's error beside the field", async () => {
  show([PAYMENT]);
  server.broken = true;
  await open("Give its result");
  write("7");
  fireEvent.click(button("Give its result"));
  expect((await screen.findByRole("alert")).textContent).toContain("too long");
  expect(toast()).toBe("");
});

it("says when another person was faster", async () => {
  show([PAYMENT]);
  server.conflict = true;
  await open("Retry it");
  fireEvent.click(button("Retry it"));
  await waitFor(() => expect(toast()).toContain("another user decided"));
});
