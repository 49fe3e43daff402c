//! Sites of the services: loaded once for the process, on their way to the lanes.

use std::path::Path;
use std::sync::Arc;

use lane::layout::Layout;
use service::{LoadContext, Site};

use crate::config::{Config, ConfigError};
use crate::descriptors;
use crate::lane_messages::Sites;
use crate::listeners::Change;
use crate::objects::ProcessObjects;
use crate::own_files::OwnFiles;
use crate::server_error::ServerError;
use crate::{lacks, lists, writers};

/// Sites of all configured services, loaded and not yet given to any lane.
pub(crate) struct LoadedSites {
    sites: Vec<Option<Box<dyn Site>>>,
    warnings: Vec<String>,
    /// Troubles that last as long as the configuration does, by their subjects in `/health`.
    troubles: Vec<(String, String)>,
    /// Number of descriptors that clients may have the process hold open.
    descriptors: usize,
}

const ACCOUNTS: &str = "identity.accounts";

impl LoadedSites {
    /// Loads what services need beside the configuration: accounts, certificates and the like. With
    /// `is_trial` it is for a check alone.
    ///
    /// # Errors
    /// Accounts that are refused, or the first service that cannot be served.
    pub(crate) fn load(
        config: &Config,
        layout: &Layout,
        objects: &ProcessObjects,
        state_dir: Option<&Path>,
        is_trial: bool,
    ) -> Result<Self, ServerError> {
        let fit = descriptors::fit(config, layout.lane_count());
        let accounts = config.identity.load().map_err(|error| match config.said.contains_key(ACCOUNTS) {
            true => config.placed(ConfigError::invalid(ACCOUNTS, error.to_string())).into(),
            false => ServerError::Accounts(error),
        })?;
        let (mut sites, mut warnings) = (Vec::new(), Vec::new());
        for (wish, connections_per_lane) in config.wishes.iter().zip(fit.connections_per_lane) {
            let (accounts, volumes) = (&accounts, &config.volumes[..]);
            let (objects, index_trouble) = (objects.objects(), objects.trouble());
            let context = LoadContext {
                state_dir,
                connections_per_lane,
                accounts,
                volumes,
                layout,
                objects,
                index_trouble,
                is_trial,
            };
            let loaded = wish.settings.as_ref().map(|settings| settings.load(&context));
            let site = loaded.transpose().map_err(|problem| match problem.downcast::<ConfigError>() {
                Ok(of_key) => config.placed(*of_key).into(),
                Err(other) => ServerError::Service(other),
            })?;
            warnings.extend(site.iter().flat_map(|site| site.warnings()));
            sites.push(site);
        }
        let descriptors = fit.for_clients;
        warnings.extend(fit.warnings);
        warnings.extend(OwnFiles::of(config).warnings(&config.volumes));
        warnings.extend(config.without_effect());
        warnings.extend(lacks::without_handles(config));
        warnings.extend(lists::warnings(&config.volumes, &accounts));
        let troubles = writers::unknown(config, &accounts);
        warnings.extend(troubles.iter().map(|(_, told)| told.clone()));
        warnings.extend(writers::warnings(config, is_trial));
        Ok(Self { sites, warnings, troubles, descriptors })
    }

    /// Sets the number of descriptors that clients share to that of this configuration.
    pub(crate) fn bound_descriptors(&self) {
        lane::descriptors::budget().set_limit(self.descriptors);
    }

    /// Returns warnings for the administrator.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the troubles of the configuration that `/health` shows while it is in use, as
    /// [`Site::troubles`] has them.
    pub(crate) fn troubles(&self) -> &[(String, String)] {
        &self.troubles
    }

    /// Tells the sites which ports the kernel chose.
    pub(crate) fn bound(&mut self, change: &Change) {
        for (place, site) in self.sites.iter_mut().enumerate() {
            if let Some(site) = site {
                site.bound(&change.bound(place));
            }
        }
    }

    /// Converts to the sites for the lanes.
    pub(crate) fn into_sites(self) -> Sites {
        self.sites.into_iter().map(|site| site.map(Arc::from)).collect()
    }
}
