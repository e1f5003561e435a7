import { Tabs } from "@mantine/core";
import { useSearchParams } from "wouter";
import { useT } from "../../i18n";
import { PageHead } from "../../parts/States";
import { Events } from "./Events";
import { FailureReport, ProxyReport, TimelineReport, WorkerReport } from "./Reports";

const TABS = { events: Events, timeline: TimelineReport, failures: FailureReport, workers: WorkerReport, proxies: ProxyReport } as const;
type Tab = keyof typeof TABS;
const NAMES = Object.keys(TABS) as Tab[];

export default function Audit() {
  const t = useT();
  const [search, setSearch] = useSearchParams();
  const tab = NAMES.find((name) => name === search.get("report")) ?? "events";
  const Shown = TABS[tab];
  return (
    <>
      <PageHead title={t("nav.audit")} />
      <Tabs value={tab} onChange={(name) => setSearch(name && name !== "events" ? { report: name } : {}, { replace: true })} keepMounted={false}>
        <Tabs.List aria-label={t("audit.tabs")} mb="md">
          {NAMES.map((name) => (
            <Tabs.Tab key={name} value={name}>
              {t(`audit.tab.${name}`)}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        <Tabs.Panel value={tab}>
          <Shown />
        </Tabs.Panel>
      </Tabs>
    </>
  );
}
