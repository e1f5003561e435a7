// One form for a member of the fleet: a new one, or one that is changed. A secret is written, never read.
import { Button, Group, Modal, Stack, TextInput } from "@mantine/core";
import { type FormEvent, useState } from "react";
import {
  addProxy,
  addWorker,
  addWriter,
  type Changes,
  editMember,
  fleetKeys,
  type Kind,
} from "../../api/fleet";
import { statsKey } from "../../api/operations";
import { type MessageId, useT } from "../../i18n";
import { useAct } from "../../parts/act";
import { Failed } from "../../parts/States";

type Field =
  | "name"
  | "url"
  | "api_key"
  | "storage_domain"
  | "host"
  | "port"
  | "username"
  | "password";
type Values = Partial<Record<Field, string>>;
export type Known = { id: string; name: string } & {
  [field in Exclude<Field, "name">]?: string | number | null;
};

const FIELDS: Record<Kind, Field[]> = {
  workers: ["name", "url", "api_key", "storage_domain"],
  proxies: ["name", "host", "port", "username", "password"],
  writers: ["name", "url", "api_key"],
};
const OPTIONAL = new Set<Field>(["port", "username", "password"]);
const SECRET = new Set<Field>(["api_key", "password"]);
const TYPES: Partial<Record<Field, string>> = {
  url: "url",
  api_key: "password",
  password: "password",
  port: "number",
};
const LABELS: Record<Field, MessageId> = {
  name: "field.name",
  url: "field.url",
  api_key: "field.api_key",
  storage_domain: "field.storage_domain",
  host: "field.host",
  port: "field.port",
  username: "field.username",
  password: "field.password",
};

function add(kind: Kind, values: Values): Promise<unknown> {
  const { name = "", url = "", api_key = "", storage_domain = "", host = "" } = values;
  if (kind === "workers") return addWorker({ name, url, api_key, storage_domain });
  if (kind === "writers") return addWriter({ name, url, api_key });
  const port = values.port ? Number(values.port) : undefined;
  return addProxy({
    name,
    host,
    port,
    username: values.username || undefined,
    password: values.password || undefined,
  });
}

const shownOf = (field: Field, member: Known): string =>
  SECRET.has(field) ? "" : String(member[field] ?? "");

// Only what was changed; a secret that was left empty stays as it is.
export function changesOf(kind: Kind, member: Known, values: Values): Changes {
  const changed = FIELDS[kind].filter(
    (field) => values[field] !== undefined && values[field] !== shownOf(field, member),
  );
  return Object.fromEntries(
    changed.map((field) => [field, field === "port" ? Number(values.port) : values[field]]),
  );
}

interface MemberDialogProps {
  kind: Kind;
  opened: boolean;
  close: () => void;
  member?: Known;
}

export function MemberDialog({ kind, opened, close, member }: MemberDialogProps) {
  const t = useT();
  const title = member ? t("fleet.editTitle", { name: member.name }) : t(`fleet.add.${kind}`);
  return (
    <Modal
      opened={opened}
      onClose={close}
      title={title}
      closeButtonProps={{ "aria-label": t("act.back") }}
    >
      <MemberForm kind={kind} close={close} member={member} />
    </Modal>
  );
}

function MemberForm({ kind, close, member }: { kind: Kind; close: () => void; member?: Known }) {
  const t = useT();
  const [values, setValues] = useState<Values>({});
  const save = (given: Values) =>
    member ? editMember(kind, member.id, changesOf(kind, member, given)) : add(kind, given);
  const run = useAct(save, [fleetKeys.all, statsKey]);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    run.mutate(values, { onSuccess: close });
  };
  return (
    <form onSubmit={submit} autoComplete="off">
      <Stack>
        {FIELDS[kind].map((field, index) => (
          <TextInput
            key={field}
            label={t(LABELS[field])}
            description={member && SECRET.has(field) ? t("fleet.keepSecret") : undefined}
            type={TYPES[field] ?? "text"}
            required={!OPTIONAL.has(field) && !(member && SECRET.has(field))}
            autoComplete="new-password"
            data-autofocus={index === 0 || undefined}
            value={values[field] ?? (member ? shownOf(field, member) : "")}
            onChange={(event) => setValues({ ...values, [field]: event.currentTarget.value })}
          />
        ))}
        {run.error && <Failed error={run.error} />}
        <Group justify="flex-end">
          <Button type="submit" loading={run.isPending}>
            {t(member ? "fleet.save" : "fleet.add")}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
