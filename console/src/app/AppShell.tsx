import { useLingui } from "@lingui/react";
import {
  Badge,
  Button,
  NativeSelect,
  useComputedColorScheme,
  useMantineColorScheme,
} from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { Link, useLocation } from "wouter";
import { decisionsQuery } from "../api/decisions";
import { sessionQuery, signOut } from "../api/session";
import { chooseLanguage, LANGUAGES, type Language, useT } from "../i18n";
import { LiveBadge, StaleWarning } from "../live/LiveBadge";
import { useLive } from "../live/LiveProvider";
import { CommandPalette, ShortcutsDialog } from "./CommandPalette";
import { type Shortcuts, useKeyboard } from "./keyboard";
import { isActive, PAGES } from "./pages";
import { useSession } from "./session";
import { useCommands } from "./useCommands";

export function AppShell({ children }: { children: ReactNode }) {
  const t = useT();
  const [open, setOpen] = useState(false);
  const [dialog, setDialog] = useState<"palette" | "keys" | null>(null);
  const commands = useCommands(() => setDialog("keys"));
  const shortcuts: Shortcuts = {
    "mod+k": () => setDialog("palette"),
    "/": () => setDialog("palette"),
  };
  for (const { keys, run } of commands) if (keys) shortcuts[keys] = run;
  useKeyboard(shortcuts);
  const main = usePageFocusAndTitle();
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
          onClick={() => setDialog("palette")}
          aria-keyshortcuts="Control+K"
        >
          {t("palette.open")}
        </Button>
        <HeaderControls />
      </header>
      <Nav open={open} close={() => setOpen(false)} />
      <main id="main" tabIndex={-1} ref={main} data-live={state}>
        <StaleWarning />
        {children}
      </main>
      <CommandPalette
        opened={dialog === "palette"}
        close={() => setDialog(null)}
        commands={commands}
      />
      <ShortcutsDialog
        opened={dialog === "keys"}
        close={() => setDialog(null)}
        commands={commands}
      />
    </div>
  );
}

// After navigation the main element has the focus, and the document title names the page.
function usePageFocusAndTitle() {
  const t = useT();
  const main = useRef<HTMLElement>(null);
  const [location] = useLocation();
  const last = useRef(location);
  const page = PAGES.find(({ path }) => isActive(path, location));
  const title = page ? `${t(page.name)} · Regente` : "Regente";
  useEffect(() => {
    document.title = title;
  }, [title]);
  useEffect(() => {
    if (last.current !== location) main.current?.focus({ preventScroll: true });
    last.current = location;
  }, [location]);
  return main;
}

function Nav({ open, close }: { open: boolean; close: () => void }) {
  const t = useT();
  const [location] = useLocation();
  return (
    <nav id="nav" aria-label={t("nav.label")} data-open={open}>
      {PAGES.map(({ path, name }) => (
        <Link
          key={path}
          href={path}
          onClick={close}
          aria-current={isActive(path, location) ? "page" : undefined}
        >
          {t(name)}
          {path === "/failures" && <DecisionCount />}
        </Link>
      ))}
    </nav>
  );
}

function DecisionCount() {
  const t = useT();
  const { data } = useQuery(decisionsQuery);
  if (!data?.length) return null;
  return (
    <>
      {" "}
      <Badge size="sm" color="red.9" component="span" aria-hidden="true">
        {data.length}
      </Badge>
      <span className="hidden-text">{t("decisions.waiting", { count: data.length })}</span>
    </>
  );
}

function HeaderControls() {
  const t = useT();
  const { i18n } = useLingui();
  const session = useSession();
  const queries = useQueryClient();
  const { setColorScheme } = useMantineColorScheme({ keepTransitions: true });
  const scheme = useComputedColorScheme("light");
  const leave = async () => {
    const atProvider = await signOut();
    if (atProvider) return location.assign(atProvider);
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
        onChange={(event) => void chooseLanguage(event.currentTarget.value as Language)}
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
