import { useLingui } from "@lingui/react";
import { Button, NativeSelect, useComputedColorScheme, useMantineColorScheme } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { Link, useLocation } from "wouter";
import { sessionQuery, signOut } from "../api/session";
import { choose, LANGUAGES, type Language, useT } from "../i18n";
import { LiveBadge, StaleWarning } from "../live/LiveBadge";
import { useLive } from "../live/LiveProvider";
import { useSession } from "./access";
import { type Shortcuts, useKeyboard } from "./keyboard";
import { KeysHelp, Palette } from "./Palette";
import { isAt, PAGES } from "./pages";
import { useCommands } from "./useCommands";

export function Shell({ children }: { children: ReactNode }) {
  const t = useT();
  const [open, setOpen] = useState(false);
  const [asks, setAsks] = useState<"palette" | "keys" | null>(null);
  const commands = useCommands(() => setAsks("keys"));
  const shortcuts: Shortcuts = { "mod+k": () => setAsks("palette"), "/": () => setAsks("palette") };
  for (const { keys, run } of commands) if (keys) shortcuts[keys] = run;
  useKeyboard(shortcuts);
  const main = useArrival();
  const { state } = useLive();
  return (
    <div className="shell">
      <a className="skip" href="#main">
        {t("nav.skip")}
      </a>
      <header className="bar">
        <button
          type="button"
          className="menu-button"
          aria-expanded={open}
          aria-controls="nav"
          onClick={() => setOpen(!open)}
        >
          <span aria-hidden="true">☰</span>
          <span className="hidden-text">{t("nav.menu")}</span>
        </button>
        <Link href="/" className="brand">
          Regente
        </Link>
        <LiveBadge />
        <span className="spring" />
        <Button
          size="xs"
          variant="default"
          onClick={() => setAsks("palette")}
          aria-keyshortcuts="Control+K"
        >
          {t("palette.open")}
        </Button>
        <Switches />
      </header>
      <Nav open={open} close={() => setOpen(false)} />
      <main id="main" tabIndex={-1} ref={main} data-live={state}>
        <StaleWarning />
        {children}
      </main>
      <Palette opened={asks === "palette"} close={() => setAsks(null)} commands={commands} />
      <KeysHelp opened={asks === "keys"} close={() => setAsks(null)} commands={commands} />
    </div>
  );
}

// Whoever comes to another page is at its content, and the tab says where that is.
function useArrival() {
  const t = useT();
  const main = useRef<HTMLElement>(null);
  const [here] = useLocation();
  const last = useRef(here);
  const page = PAGES.find(({ path }) => isAt(path, here));
  const title = page ? `${t(page.name)} · Regente` : "Regente";
  useEffect(() => {
    document.title = title;
  }, [title]);
  useEffect(() => {
    if (last.current !== here) main.current?.focus({ preventScroll: true });
    last.current = here;
  }, [here]);
  return main;
}

function Nav({ open, close }: { open: boolean; close: () => void }) {
  const t = useT();
  const [here] = useLocation();
  return (
    <nav id="nav" aria-label={t("nav.label")} data-open={open}>
      {PAGES.map(({ path, name }) => (
        <Link
          key={path}
          href={path}
          onClick={close}
          aria-current={isAt(path, here) ? "page" : undefined}
        >
          {t(name)}
        </Link>
      ))}
    </nav>
  );
}

function Switches() {
  const t = useT();
  const { i18n } = useLingui();
  const session = useSession();
  const queries = useQueryClient();
  const { setColorScheme } = useMantineColorScheme({ keepTransitions: true });
  const scheme = useComputedColorScheme("light");
  const leave = async () => {
    await signOut();
    queries.setQueryData(sessionQuery.queryKey, null);
    queries.removeQueries({
      predicate: ({ queryKey }) => queryKey[0] !== sessionQuery.queryKey[0],
    });
  };
  return (
    <>
      <NativeSelect
        size="xs"
        aria-label={t("nav.language")}
        value={i18n.locale}
        data={Object.entries(LANGUAGES).map(([value, label]) => ({ value, label }))}
        onChange={(event) => void choose(event.currentTarget.value as Language)}
      />
      <Button
        size="xs"
        variant="default"
        onClick={() => setColorScheme(scheme === "dark" ? "light" : "dark")}
      >
        {t(scheme === "dark" ? "nav.light" : "nav.dark")}
      </Button>
      {session.via === "session" && (
        <Button
          size="xs"
          variant="subtle"
          onClick={() => void leave()}
          title={`${session.name} · ${session.role}`}
        >
          {t("nav.signOut")}
        </Button>
      )}
    </>
  );
}
