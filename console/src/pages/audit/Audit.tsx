import { HAS_MISSIONS } from "../../app/builtins";
import { TabbedPage } from "../../components/TabbedPage";
import { useT } from "../../i18n";
import { Events } from "./Events";
import { FailureReport, ProxyReport, TimelineReport, WorkerReport } from "./Reports";

const TABS = {
  events: Events,
  timeline: TimelineReport,
  failures: FailureReport,
  workers: WorkerReport,
  proxies: ProxyReport,
} as const;
type Name = keyof typeof TABS;
// The reports are of missions.
const REPORTS: Name[] = HAS_MISSIONS ? ["timeline", "failures", "workers", "proxies"] : [];
const NAMES: readonly [Name, ...Name[]] = ["events", ...REPORTS];

export default function Audit() {
  const t = useT();
  return (
    <TabbedPage
      title={t("nav.audit")}
      label={t("audit.tabs")}
      param="report"
      names={NAMES}
      nameOf={(name) => t(`audit.tab.${name}`)}
      tabs={TABS}
    />
  );
}
