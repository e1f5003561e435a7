import {
  Alert,
  Button,
  Checkbox,
  Group,
  Modal,
  Stack,
  Switch,
  Text,
  TextInput,
} from "@mantine/core";
import { useState } from "react";
import { createMissions, missionKeys } from "../../api/missions";
import { statsKey } from "../../api/operations";
import { useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { useAct } from "../../parts/act";
import { Failed } from "../../parts/States";
import { MEDIA_TYPES } from "./filter";
import { countOf, type Draft, flawOf, MOST_MISSIONS, rangeOf } from "./range";

const today = () => new Date().toISOString().slice(0, 10);

const fresh = (): Draft => ({
  from: today(),
  to: today(),
  media: ["all"],
  languages: "pt",
  apart: true,
  daysEach: 1,
});

interface CreateDialogProps {
  opened: boolean;
  close: () => void;
  title?: string;
  start?: Draft;
}

export function CreateDialog({ opened, close, title, start }: CreateDialogProps) {
  const t = useT();
  return (
    <Modal
      opened={opened}
      onClose={close}
      title={title ?? t("create.title")}
      size="lg"
      closeButtonProps={{ "aria-label": t("act.back") }}
    >
      <CreateForm close={close} start={start} />
    </Modal>
  );
}

function CreateForm({ close, start }: { close: () => void; start?: Draft }) {
  const t = useT();
  const format = useFormat();
  const [draft, setDraft] = useState(() => start ?? fresh());
  const create = useAct(
    (queue: boolean) => createMissions(rangeOf(draft), queue),
    [missionKeys.all, statsKey],
  );
  const flaw = flawOf(draft);
  const count = countOf(draft);
  const submit = (queue: boolean) => create.mutate(queue, { onSuccess: close });
  return (
    <Stack>
      <Fields draft={draft} change={(changes) => setDraft({ ...draft, ...changes })} />
      <Alert color={flaw ? "yellow" : "blue"} role="status" aria-live="polite">
        {flaw
          ? t(`create.flaw.${flaw}`, { most: format.number(MOST_MISSIONS) })
          : t("create.count", { count })}
      </Alert>
      {create.error && <Failed error={create.error} />}
      <Group justify="flex-end">
        <Button
          variant="default"
          disabled={flaw !== null}
          loading={create.isPending}
          onClick={() => submit(false)}
        >
          {t("create.toBank")}
        </Button>
        <Button disabled={flaw !== null} loading={create.isPending} onClick={() => submit(true)}>
          {t("create.toQueue")}
        </Button>
      </Group>
    </Stack>
  );
}

function Fields({ draft, change }: { draft: Draft; change: (changes: Partial<Draft>) => void }) {
  const t = useT();
  return (
    <>
      <Group grow>
        <TextInput
          type="date"
          label={t("create.from")}
          value={draft.from}
          onChange={(e) => change({ from: e.currentTarget.value })}
          data-autofocus
        />
        <TextInput
          type="date"
          label={t("create.to")}
          value={draft.to}
          onChange={(e) => change({ to: e.currentTarget.value })}
        />
        <TextInput
          type="number"
          min={1}
          label={t("create.daysEach")}
          value={draft.daysEach}
          onChange={(e) => change({ daysEach: e.currentTarget.valueAsNumber || 0 })}
        />
      </Group>
      <Checkbox.Group
        label={t("create.media")}
        value={draft.media}
        onChange={(media) => change({ media: MEDIA_TYPES.filter((one) => media.includes(one)) })}
      >
        <Group mt="xs">
          {MEDIA_TYPES.map((one) => (
            <Checkbox key={one} value={one} label={t(`media.${one}`)} />
          ))}
        </Group>
      </Checkbox.Group>
      <TextInput
        label={t("create.languages")}
        description={t("create.languagesHow")}
        value={draft.languages}
        onChange={(e) => change({ languages: e.currentTarget.value })}
      />
      <Switch
        label={<Text size="sm">{t("create.apart")}</Text>}
        checked={draft.apart}
        onChange={(e) => change({ apart: e.currentTarget.checked })}
      />
    </>
  );
}
