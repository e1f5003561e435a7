import { type FailureGroup, failuresKey } from "../../api/engine";
import { missionKeys } from "../../api/missions";
import { statsKey } from "../../api/overview";

export const AFFECTED_QUERIES = [failuresKey, missionKeys.all, statsKey];

export const groupFilter = ({ pipeline, code, fingerprint }: FailureGroup) => ({
  pipeline,
  code,
  fingerprint,
});
