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
const NAMES = ["events", "timeline", "failures", "workers", "proxies"] as const;

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
