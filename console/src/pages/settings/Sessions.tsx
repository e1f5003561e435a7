import { Group, Paper, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { endSession, type OpenSession, sessionsQuery } from "../../api/session";
import { ConfirmButton } from "../../components/ActionButton";
import { QueryView } from "../../components/States";
import { useT } from "../../i18n";
import { useFormat } from "../../i18n/format";

export function Sessions() {
  const t = useT();
  const query = useQuery(sessionsQuery);
  return (
    <Paper withBorder p="md">
      <Stack>
        <Title order={2} size="h4">
          {t("sessions.title")}
        </Title>
        <QueryView query={query}>
          {(found) => found.map((session) => <SessionRow key={session.id} of={session} />)}
        </QueryView>
      </Stack>
    </Paper>
  );
}

function SessionRow({ of }: { of: OpenSession }) {
  const t = useT();
  const format = useFormat();
  return (
    <Group justify="space-between">
      <Text size="sm">
        {format.time(of.created_at)} {of.address && t("sessions.from", { address: of.address })}
      </Text>
      {of.current ? (
        <Text size="sm" c="dimmed">
          {t("sessions.current")}
        </Text>
      ) : (
        <ConfirmButton
          size="compact-xs"
          variant="outline"
          color="red"
          action={() => endSession(of.id)}
          invalidates={[sessionsQuery.queryKey]}
          question={t("sessions.endQuestion", { ago: format.ago(of.created_at) })}
        >
          {t("sessions.end")}
        </ConfirmButton>
      )}
    </Group>
  );
}
