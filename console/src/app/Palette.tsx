// Ctrl K: everything by name, without the mouse.
import { Kbd, Modal, Switch, TextInput } from "@mantine/core";
import { type KeyboardEvent, useState } from "react";
import { useLocation } from "wouter";
import { useT } from "../i18n";
import { type Command, matching, missionIn } from "./commands";
import { singleKeysOn, switchSingleKeys } from "./keyboard";

export function Palette({
  opened,
  close,
  commands,
}: {
  opened: boolean;
  close: () => void;
  commands: Command[];
}) {
  const t = useT();
  return (
    <Modal
      opened={opened}
      onClose={close}
      title={t("palette.title")}
      size="lg"
      yOffset="12vh"
      closeButtonProps={{ "aria-label": t("act.close") }}
    >
      <Choice commands={commands} close={close} />
    </Modal>
  );
}

function Choice({ commands, close }: { commands: Command[]; close: () => void }) {
  const t = useT();
  const [, go] = useLocation();
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(0);
  const mission = missionIn(typed);
  const found = mission
    ? [
        {
          id: "mission",
          name: t("palette.mission", { id: mission }),
          kind: "page" as const,
          run: () => go(`/missions/${mission}`),
        },
        ...matching(commands, typed),
      ]
    : matching(commands, typed);
  const chosen = Math.min(at, Math.max(0, found.length - 1));
  const run = (command: Command | undefined) => {
    if (!command) return;
    close();
    command.run();
  };
  const press = (event: KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step) setAt((chosen + step + found.length) % Math.max(1, found.length));
    else if (event.key === "Enter") run(found[chosen]);
    else return;
    event.preventDefault();
  };
  return (
    <>
      <TextInput
        data-autofocus
        role="combobox"
        aria-expanded
        aria-controls="palette-list"
        aria-activedescendant={found[chosen] && `palette-${found[chosen].id}`}
        aria-label={t("palette.search")}
        placeholder={t("palette.search")}
        value={typed}
        onChange={(event) => {
          setTyped(event.currentTarget.value);
          setAt(0);
        }}
        onKeyDown={press}
      />
      <div id="palette-list" role="listbox" aria-label={t("palette.title")} className="palette">
        {found.map((command, index) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the field has the focus and takes the keys
          <div
            key={command.id}
            id={`palette-${command.id}`}
            role="option"
            tabIndex={-1}
            aria-selected={index === chosen}
            ref={
              index === chosen
                ? (element) => element?.scrollIntoView?.({ block: "nearest" })
                : undefined
            }
            onMouseMove={() => setAt(index)}
            onClick={() => run(command)}
          >
            <span>{command.name}</span>
            <span className="quiet">
              {command.keys
                ? command.keys.split(" ").map((key) => (
                    <Kbd key={key} size="xs">
                      {key}
                    </Kbd>
                  ))
                : t(`palette.kind.${command.kind}`)}
            </span>
          </div>
        ))}
      </div>
      {!found.length && (
        <p className="quiet" role="status">
          {t("palette.none")}
        </p>
      )}
    </>
  );
}

export function KeysHelp({
  opened,
  close,
  commands,
}: {
  opened: boolean;
  close: () => void;
  commands: Command[];
}) {
  const t = useT();
  return (
    <Modal
      opened={opened}
      onClose={close}
      title={t("palette.shortcuts")}
      closeButtonProps={{ "aria-label": t("act.close") }}
    >
      <SingleKeys />
      <dl className="keys">
        {commands
          .filter(({ keys }) => keys)
          .map(({ id, name, keys }) => (
            <div key={id}>
              <dt>{name}</dt>
              <dd>
                {keys?.split(" ").map((key) => (
                  <Kbd key={key}>{key}</Kbd>
                ))}
              </dd>
            </div>
          ))}
      </dl>
    </Modal>
  );
}

function SingleKeys() {
  const t = useT();
  const [on, setOn] = useState(singleKeysOn);
  const change = (wanted: boolean) => {
    switchSingleKeys(wanted);
    setOn(wanted);
  };
  return (
    <Switch
      mb="md"
      label={t("palette.singleKeys")}
      checked={on}
      onChange={(event) => change(event.currentTarget.checked)}
    />
  );
}
