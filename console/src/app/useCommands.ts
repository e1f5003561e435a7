import { useLingui } from "@lingui/react";
import { useComputedColorScheme, useMantineColorScheme } from "@mantine/core";
import { useLocation } from "wouter";
import { startOrchestrator } from "../api/overview";
import { useAction } from "../components/ActionButton";
import { chooseLanguage, type Language, useT } from "../i18n";
import { useLive } from "../live/LiveProvider";
import { BUILTIN_PAGES } from "./builtinPages";
import { HAS_MISSIONS } from "./builtins";
import type { Command } from "./commands";
import { PAGES } from "./pages";
import { useHasRole } from "./session";

export function useCommands(help: () => void): Command[] {
  const t = useT();
  const { i18n } = useLingui();
  const [, navigate] = useLocation();
  const { setColorScheme } = useMantineColorScheme({ keepTransitions: true });
  const scheme = useComputedColorScheme("light");
  const live = useLive();
  const mayAct = useHasRole("operator");
  const start = useAction(startOrchestrator, [["orchestrator"], ["stats"]]);
  const other = i18n.locale === "en" ? "pt-BR" : "en";
  const page = (id: string, name: string, path: string, keys?: string): Command => ({
    id,
    name,
    kind: "page",
    keys,
    run: () => navigate(path),
  });
  const action = (id: string, name: string, run: () => void, keys?: string): Command => ({
    id,
    name,
    kind: "action",
    keys,
    run,
  });
  const ofMissions = [
    page("failed", t("palette.failed"), "/missions?status=failed"),
    page("running", t("palette.running"), "/missions?status=running"),
    ...(mayAct
      ? [
          action("create", t("palette.create"), () => navigate("/missions?new=1"), "c"),
          page("select", t("missions.select"), "/missions?status=draft"),
          action("start", `${t("orchestrator.start")} (${t("orchestrator.name")})`, () =>
            start.mutate(undefined),
          ),
        ]
      : []),
  ];
  return [
    ...PAGES.map(({ path, name, letter }) =>
      page(name.replace(".", "-"), t(name), path, `g ${letter}`),
    ),
    ...BUILTIN_PAGES.map(({ name, title }) =>
      page(`results-${name}`, title[i18n.locale as Language], `/results?of=${name}`),
    ),
    ...(HAS_MISSIONS ? ofMissions : []),
    action(
      "theme",
      t("palette.theme"),
      () => setColorScheme(scheme === "dark" ? "light" : "dark"),
      "t",
    ),
    action("language", other === "en" ? "English" : "Português", () => void chooseLanguage(other)),
    action("pause", t("palette.pause"), live.state === "paused" ? live.retry : live.pause, "p"),
    action("keys", t("palette.shortcuts"), help, "?"),
  ];
}
