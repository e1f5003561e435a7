DROP TABLE regente.installation;
