import { useLingui } from "@lingui/react";
import { useComputedColorScheme, useMantineColorScheme } from "@mantine/core";
import { useLocation } from "wouter";
import { startOrchestrator } from "../api/operations";
import { KINDS } from "../api/results";
import { choose, useT } from "../i18n";
import { useLive } from "../live/LiveProvider";
import { useAct } from "../parts/act";
import { useMay } from "./access";
import type { Command } from "./commands";
import { PAGES } from "./pages";

export function useCommands(help: () => void): Command[] {
  const t = useT();
  const { i18n } = useLingui();
  const [, go] = useLocation();
  const { setColorScheme } = useMantineColorScheme({ keepTransitions: true });
  const scheme = useComputedColorScheme("light");
  const live = useLive();
  const mayAct = useMay("operator");
  const start = useAct(startOrchestrator, [["orchestrator"], ["stats"]]);
  const other = i18n.locale === "en" ? "pt-BR" : "en";
  const page = (id: string, name: string, path: string, keys?: string): Command => ({
    id,
    name,
    kind: "page",
    keys,
    run: () => go(path),
  });
  const act = (id: string, name: string, run: () => void, keys?: string): Command => ({
    id,
    name,
    kind: "act",
    keys,
    run,
  });
  return [
    ...PAGES.map(({ path, name, letter }) =>
      page(name.replace(".", "-"), t(name), path, `g ${letter}`),
    ),
    ...KINDS.map((kind) =>
      page(`results-${kind}`, t(`results.tab.${kind}`), `/results?of=${kind}`),
    ),
    page("failed", t("palette.failed"), "/missions?status=failed"),
    page("running", t("palette.running"), "/missions?status=running"),
    ...(mayAct
      ? [
          act("create", t("palette.create"), () => go("/missions?new=1"), "c"),
          page("select", t("missions.select"), "/missions?status=draft"),
          act("start", `${t("orchestrator.start")} (${t("orchestrator.name")})`, () =>
            start.mutate(undefined),
          ),
        ]
      : []),
    act(
      "theme",
      t("palette.theme"),
      () => setColorScheme(scheme === "dark" ? "light" : "dark"),
      "t",
    ),
    act("language", other === "en" ? "English" : "Português", () => void choose(other)),
    act("pause", t("palette.pause"), live.state === "paused" ? live.retry : live.pause, "p"),
    act("keys", t("palette.shortcuts"), help, "?"),
  ];
}
