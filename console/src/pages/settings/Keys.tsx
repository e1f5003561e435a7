import {
  Alert,
  Button,
  Code,
  Group,
  NativeSelect,
  Paper,
  Stack,
  Table,
  TextInput,
  Title,
} from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import type { Role } from "../../api/session";
import { createKey, createSignInLink, type Key, keysQuery, revokeKey } from "../../api/settings";
import { ConfirmButton, useAction } from "../../components/ActionButton";
import { ErrorAlert, QueryView } from "../../components/States";
import { StatusBadge } from "../../components/StatusBadge";
import { useT } from "../../i18n";
import { useFormat } from "../../i18n/format";

const ROLES: Role[] = ["viewer", "operator", "admin"];
const AFFECTED_QUERIES = [["keys"]];

export function Keys() {
  const t = useT();
  const query = useQuery(keysQuery);
  const [shown, setShown] = useState<string | null>(null);
  return (
    <Paper withBorder p="md">
      <Stack>
        <Title order={2} size="h4">
          {t("keys.title")}
        </Title>
        <NewKey show={setShown} />
        {shown && (
          <Alert
            color="green"
            title={t("keys.once")}
            withCloseButton
            closeButtonLabel={t("common.close")}
            onClose={() => setShown(null)}
            role="status"
          >
            <Code block>{shown}</Code>
          </Alert>
        )}
        <QueryView query={query}>{(found) => <KeyTable found={found} show={setShown} />}</QueryView>
      </Stack>
    </Paper>
  );
}

function NewKey({ show }: { show: (secret: string) => void }) {
  const t = useT();
  const [name, setName] = useState("");
  const [role, setRole] = useState<Role>("viewer");
  const [scopes, setScopes] = useState("");
  const [expires, setExpires] = useState("");
  const make = useAction(createKey, AFFECTED_QUERIES);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    make.mutate(
      {
        name,
        role,
        scopes: scopes.split(/[\s,]+/).filter(Boolean),
        expires_at: expires ? new Date(`${expires}T23:59:59`).toISOString() : null,
      },
      {
        onSuccess: ({ api_key }) => {
          show(api_key);
          setName("");
        },
      },
    );
  };
  return (
    <form onSubmit={submit}>
      <Group align="flex-end">
        <TextInput
          label={t("field.name")}
          required
          maxLength={100}
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
        />
        <NativeSelect
          label={t("keys.role")}
          value={role}
          data={ROLES.map((one) => ({ value: one, label: t(`role.${one}`) }))}
          onChange={(event) =>
            setRole(ROLES.find((one) => one === event.currentTarget.value) ?? "viewer")
          }
        />
        <TextInput
          label={t("keys.scopes")}
          placeholder={t("keys.scopesHelp")}
          value={scopes}
          onChange={(event) => setScopes(event.currentTarget.value)}
        />
        <TextInput
          type="date"
          label={t("keys.expires")}
          value={expires}
          onChange={(event) => setExpires(event.currentTarget.value)}
        />
        <Button type="submit" loading={make.isPending}>
          {t("keys.create")}
        </Button>
      </Group>
      {make.error && <ErrorAlert error={make.error} />}
    </form>
  );
}

function KeyTable({ found, show }: { found: Key[]; show: (secret: string) => void }) {
  const t = useT();
  const format = useFormat();
  return (
    <Table.ScrollContainer
      minWidth={600}
      type="native"
      tabIndex={0}
      role="region"
      aria-label={t("keys.title")}
    >
      <Table>
        <Table.Tbody>
          {found.map((key) => (
            <Table.Tr key={key.id}>
              <Table.Td>{key.name}</Table.Td>
              <Table.Td className="code">{key.prefix}…</Table.Td>
              <Table.Td>
                {t(`role.${key.role}`)}
                {key.scopes && ` (${key.scopes.join(", ")})`}
              </Table.Td>
              <Table.Td>
                <StatusBadge status={key.status} />
              </Table.Td>
              <Table.Td>
                {key.expires_at && t("keys.until", { day: format.time(key.expires_at) })}
              </Table.Td>
              <Table.Td>
                {key.last_used_at && t("keys.used", { ago: format.ago(key.last_used_at) })}
              </Table.Td>
              <Table.Td>{key.status === "valid" && <KeyActions of={key} show={show} />}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

function KeyActions({ of, show }: { of: Key; show: (secret: string) => void }) {
  const t = useT();
  const link = useAction(() => createSignInLink(of.id), AFFECTED_QUERIES);
  return (
    <Group gap="xs" justify="flex-end" wrap="nowrap">
      <Button
        size="compact-xs"
        variant="default"
        loading={link.isPending}
        onClick={() => link.mutate(undefined, { onSuccess: ({ url }) => show(url) })}
      >
        {t("keys.link")}
      </Button>
      <ConfirmButton
        size="compact-xs"
        variant="outline"
        color="red"
        action={() => revokeKey(of.id)}
        invalidates={AFFECTED_QUERIES}
        question={t("keys.revokeQuestion", { name: of.name })}
      >
        {t("keys.revoke")}
      </ConfirmButton>
    </Group>
  );
}
