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
import { statsKey } from "../../api/overview";
import { useAction } from "../../components/ActionButton";
import { ErrorAlert } from "../../components/States";
import { useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { MEDIA_TYPES } from "./filter";
import { MAX_MISSIONS, missionCount, missionRange, type RangeForm, validateForm } from "./range";

const today = () => new Date().toISOString().slice(0, 10);

const defaultForm = (): RangeForm => ({
  from: today(),
  to: today(),
  media: ["all"],
  languages: "pt",
  onePerLanguage: true,
  daysEach: 1,
});

interface CreateDialogProps {
  opened: boolean;
  close: () => void;
  title?: string;
  start?: RangeForm;
}

export function CreateDialog({ opened, close, title, start }: CreateDialogProps) {
  const t = useT();
  return (
    <Modal
      opened={opened}
      onClose={close}
      title={title ?? t("create.title")}
      size="lg"
      closeButtonProps={{ "aria-label": t("common.back") }}
    >
      <CreateForm close={close} start={start} />
    </Modal>
  );
}

function CreateForm({ close, start }: { close: () => void; start?: RangeForm }) {
  const t = useT();
  const format = useFormat();
  const [draft, setDraft] = useState(() => start ?? defaultForm());
  const create = useAction(
    (queue: boolean) => createMissions(missionRange(draft), queue),
    [missionKeys.all, statsKey],
  );
  const invalid = validateForm(draft);
  const count = missionCount(draft);
  const submit = (queue: boolean) => create.mutate(queue, { onSuccess: close });
  return (
    <Stack>
      <FormFields draft={draft} change={(changes) => setDraft({ ...draft, ...changes })} />
      <Alert color={invalid ? "yellow" : "blue"} role="status" aria-live="polite">
        {invalid
          ? t(`create.invalid.${invalid}`, { most: format.number(MAX_MISSIONS) })
          : t("create.count", { count })}
      </Alert>
      {create.error && <ErrorAlert error={create.error} />}
      <Group justify="flex-end">
        <Button
          variant="default"
          disabled={invalid !== null}
          loading={create.isPending}
          onClick={() => submit(false)}
        >
          {t("create.asDraft")}
        </Button>
        <Button disabled={invalid !== null} loading={create.isPending} onClick={() => submit(true)}>
          {t("create.toQueue")}
        </Button>
      </Group>
    </Stack>
  );
}

function FormFields({
  draft,
  change,
}: {
  draft: RangeForm;
  change: (changes: Partial<RangeForm>) => void;
}) {
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
        description={t("create.languagesHelp")}
        value={draft.languages}
        onChange={(e) => change({ languages: e.currentTarget.value })}
      />
      <Switch
        label={<Text size="sm">{t("create.onePerLanguage")}</Text>}
        checked={draft.onePerLanguage}
        onChange={(e) => change({ onePerLanguage: e.currentTarget.checked })}
      />
    </>
  );
}
