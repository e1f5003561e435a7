import { Button, NativeSelect, useComputedColorScheme, useMantineColorScheme } from "@mantine/core";
import { useLingui } from "@lingui/react";
import { useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { Link, useLocation } from "wouter";
import { sessionQuery, signOut } from "../api/session";
import { LANGUAGES, type Language, type MessageId, choose, useT } from "../i18n";
import { LiveBadge, StaleWarning } from "../live/LiveBadge";
import { useSession } from "./access";

const PAGES: [path: string, name: MessageId][] = [
  ["/", "nav.overview"],
  ["/missions", "nav.missions"],
  ["/batches", "nav.batches"],
  ["/failures", "nav.failures"],
  ["/fleet", "nav.fleet"],
  ["/runners", "nav.runners"],
  ["/audit", "nav.audit"],
  ["/settings", "nav.settings"],
];

export function Shell({ children }: { children: ReactNode }) {
  const t = useT();
  const [open, setOpen] = useState(false);
  return (
    <div className="shell">
      <a className="skip" href="#main">
        {t("nav.skip")}
      </a>
      <header className="bar">
        <button type="button" className="menu-button" aria-expanded={open} aria-controls="nav" onClick={() => setOpen(!open)}>
          <span aria-hidden="true">☰</span>
          <span className="hidden-text">{t("nav.menu")}</span>
        </button>
        <Link href="/" className="brand">
          Regente
        </Link>
        <LiveBadge />
        <span className="spring" />
        <Switches />
      </header>
      <Nav open={open} close={() => setOpen(false)} />
      <main id="main" tabIndex={-1}>
        <StaleWarning />
        {children}
      </main>
    </div>
  );
}

function Nav({ open, close }: { open: boolean; close: () => void }) {
  const t = useT();
  const [here] = useLocation();
  return (
    <nav id="nav" aria-label={t("nav.label")} data-open={open}>
      {PAGES.map(([path, name]) => {
        const current = path === "/" ? here === "/" : here.startsWith(path);
        return (
          <Link key={path} href={path} onClick={close} aria-current={current ? "page" : undefined}>
            {t(name)}
          </Link>
        );
      })}
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
    queries.clear();
    queries.setQueryData(sessionQuery.queryKey, null);
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
      <Button size="xs" variant="default" onClick={() => setColorScheme(scheme === "dark" ? "light" : "dark")}>
        {t(scheme === "dark" ? "nav.light" : "nav.dark")}
      </Button>
      {session.via === "session" && (
        <Button size="xs" variant="subtle" onClick={() => void leave()} title={`${session.name} · ${session.role}`}>
          {t("nav.signOut")}
        </Button>
      )}
    </>
  );
}
