import { type FailureGroup, failuresKey } from "../../api/engine";
import { missionKeys } from "../../api/missions";
import { statsKey } from "../../api/operations";

export const STALE = [failuresKey, missionKeys.all, statsKey];

export const filterOf = ({ pipeline, code, fingerprint }: FailureGroup) => ({
  pipeline,
  code,
  fingerprint,
});
