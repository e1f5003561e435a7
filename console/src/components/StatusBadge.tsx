import { Badge } from "@mantine/core";
import { isMessageId, useT } from "../i18n";

// Colours of the dot. Filled badges have too little contrast in some colours.
const COLORS: Record<string, string> = {
  draft: "gray",
  queued: "indigo",
  pending: "indigo",
  running: "blue",
  completed: "green",
  failed: "red",
  canceled: "gray",
  skipped: "gray",
  stalled: "orange",
  idle: "gray",
  initializing: "cyan",
  ready: "green",
  scraping: "blue",
  error: "red",
  free: "green",
  "in use": "blue",
  active: "green",
  resting: "orange",
  inactive: "gray",
  draining: "yellow",
  stopped: "gray",
  lost: "red",
  valid: "green",
  expired: "orange",
  revoked: "gray",
  incomplete: "orange",
  missing: "red",
  PENDENTE: "indigo",
  PROCESSANDO: "blue",
  EM_ANDAMENTO: "blue",
  CONCLUIDO: "green",
  TRAVADO: "orange",
  ERRO: "red",
  PULADO: "gray",
  CANCELADO: "gray",
};

export function StatusBadge({ status }: { status: string }) {
  const nameOf = useStatusName();
  return (
    <Badge variant="dot" color={COLORS[status] ?? "gray"} className="status">
      {nameOf(status)}
    </Badge>
  );
}

// The translated name of a status, or the status itself if it has no translation.
export const useStatusName = () => {
  const t = useT();
  return (status: string): string => {
    const id = `status.${status}`;
    return isMessageId(id) ? t(id) : status;
  };
};
