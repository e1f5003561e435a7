import { Badge } from "@mantine/core";
import { knownId, useT } from "../i18n";

// Light badges with dark text: the filled ones of some colours have too little contrast.
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

export function Status({ of }: { of: string }) {
  const t = useT();
  const id = `status.${of}`;
  return (
    <Badge variant="dot" color={COLORS[of] ?? "gray"} className="status">
      {knownId(id) ? t(id) : of}
    </Badge>
  );
}

export const useStatusName = () => {
  const t = useT();
  return (status: string): string => {
    const id = `status.${status}`;
    return knownId(id) ? t(id) : status;
  };
};
