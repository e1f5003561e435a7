DROP INDEX regente.events_of_operators;
DROP TABLE regente.actions;
DROP TYPE regente.action_status;
DROP TABLE regente.sign_in_tokens;
DROP TABLE regente.api_sessions;
DROP TABLE regente.api_keys;
DROP TYPE regente.api_role;
